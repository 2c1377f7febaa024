"""The live system under kills, load, nonsense and damage: real processes on this machine, judged from outside."""
