"""The host side of the sandbox: images, boot, command channel, command line."""
