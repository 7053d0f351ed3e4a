#pragma once

#include <string>
#include <vector>

#include "tools/frame/file_findings.h"

namespace lockstep {

/// Problems in manifests that should start a data-parallel job: pods that do not know their place, that do not find or
/// do not admit each other, that wait for pods which the Job does not start. Empty if none was found. Reads the Jobs
/// and Services of `text`, a stream of YAML documents; others are passed over.
/// @throws Error  if it is not YAML
std::vector<FileFinding> check_kubernetes_file(const std::string& text);

}  // namespace lockstep
