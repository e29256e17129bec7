"""What boots: virtual and real boards, their hardware, images, and the workload matrix."""
