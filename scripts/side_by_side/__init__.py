"""The parts of scripts/side-by-side: voltile beside what else could serve the same tiles, over HTTP, here."""
