"""What the times of launches show: idle time, queues, overlap, stragglers."""
