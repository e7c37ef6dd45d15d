"""A fleet over time: work arrives, schedulers choose, kubelets decide, controllers try again."""
