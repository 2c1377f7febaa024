"""The checks of ``elastane bench-gpu`` measure a machine with GPUs, in twelve checks of a few seconds each."""
