//! Civil time in the machine's own zone, for log lines.
