"""The sandbox and the demo of ovnmig: a real OVN cluster on any Linux machine."""
