#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A place in manifests that does not do what its author intends.
struct KubernetesFinding {
  int line = 0;  ///< from 1; 0 if something is missing
  std::string problem;
  std::string fix;
};

/// Problems in manifests that should start a data-parallel job: pods that do not know their place, that do not find or
/// do not admit each other, that wait for pods which the Job does not start. Empty if none was found. Reads the Jobs
/// and Services of `text`, a stream of YAML documents; others are passed over.
/// @throws Error  if it is not YAML
std::vector<KubernetesFinding> check_kubernetes_file(const std::string& text);

}  // namespace lockstep
