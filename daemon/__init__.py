"""The node daemon: reads its index from its row, writes names, supervises IMEX. Not built yet."""
