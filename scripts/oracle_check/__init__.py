"""The parts of scripts/oracle-check: volumes (what is served), server (voltile itself), addresses (what is asked),
compare (what the answers must be), run (the order of things and the report). All need the oracle on the path; it comes
first because it tells HDF5 where external data lies, which HDF5 reads once, when h5py is loaded."""

import oracle  # noqa: F401
