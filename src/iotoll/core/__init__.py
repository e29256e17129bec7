"""What every room uses: errors, files, processes, progress, the command line's own parts."""
