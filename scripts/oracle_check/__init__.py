"""The modules of scripts/oracle-check: volumes (the datasets served), server (the voltile process), addresses (the
requests), compare (checks the responses), run (the main program and the report). All need the oracle in sys.path. It
must be imported before h5py, because it sets HDF5's search path for external files, which HDF5 reads when loaded."""

import oracle  # noqa: F401
