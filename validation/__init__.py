"""The models beside real tools: questions to Timeloop, LoopTree and DeFiNES, recorded answers, and a report."""
