"""The parts of scripts/clients-check."""
