"""Jobs on YARN: preflight, staging, and the one call that needs skein's JVM.

Status, lists and kills go through the ResourceManager's REST interface (`afo.yarn.resource_manager`) and start no JVM.
"""
