"""What ``elastane bench-gpu`` measures on a machine with GPUs, in twelve checks of a few seconds each."""
