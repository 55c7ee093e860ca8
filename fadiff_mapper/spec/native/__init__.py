"""The dialect that Timeloop's binaries read, read into values and written from them."""
