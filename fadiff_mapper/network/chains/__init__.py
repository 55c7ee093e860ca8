"""Chains of layers that can pass tiles on, their segments, and the cover of chains by groups."""
