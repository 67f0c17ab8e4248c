"""What runs Beam work: processes on this machine, Flink, Dask, or any of Beam's job servers."""
