"""From a source tree to a kernel image: sources, configs, builds, the cache of images."""
