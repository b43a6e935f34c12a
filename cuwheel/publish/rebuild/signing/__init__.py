"""Run in the environment of `envs/sigstore.lock`: statements signed by an identity."""
