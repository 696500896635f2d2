"""YARN as afo speaks to it: the ResourceManager, queues, an application's specification."""
