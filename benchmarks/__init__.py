"""What resumable_nb costs, side by side with what it is measured against, as ratios of one run."""
