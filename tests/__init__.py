"""Tests, as packages so that two folders may have files of one name."""
