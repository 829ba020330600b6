"""The cluster itself: what runs inside the sandbox's kernel (or in private namespaces of a host that can)."""
