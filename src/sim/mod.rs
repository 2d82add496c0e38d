//! A simulated regtest chain, for tests, loads and the demo.
