"""The emitters: functions that generate the kernels of the CPU engine, one file per walk (loop over
an array)."""
