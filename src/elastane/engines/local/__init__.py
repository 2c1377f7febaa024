"""Jobs as processes on this machine, divided into (virtual) nodes."""
