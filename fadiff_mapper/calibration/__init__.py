"""Learned correction of cycles to those measured on real hardware: features, fit, verdict, file."""
