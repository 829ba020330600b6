"""The demo: report (a) on the real cluster, judged from what both ends and the wire recorded."""
