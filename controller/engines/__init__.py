"""Engines: the consumers of the partitions, in one process or shared by a group of them."""
