"""Chains of layers that can pass tiles on, their segments, and their cover by groups."""
