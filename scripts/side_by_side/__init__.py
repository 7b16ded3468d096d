"""The modules of scripts/side-by-side, which compares voltile with other tile servers over HTTP on this machine."""
