// A program that does nothing: linked with a library, or without.
#if defined(USE_CURL)
#include <curl/curl.h>
int main() { return curl_version() == nullptr; }
#elif defined(USE_HWLOC)
#include <hwloc.h>
int main() {
  hwloc_topology_t topology;
  return hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0 ||
         hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) <= 0;
}
#elif defined(USE_TOPOLOGY)
#include "lockstep/base/processor/core_count.h"
int main() { return lockstep::compute_cores() < 1; }
#else
int main() {}
#endif
