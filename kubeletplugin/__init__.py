"""The DRA kubelet plugin. Not built yet."""
