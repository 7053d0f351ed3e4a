// A flag that names devices of replicas.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/replicas/replica_device.h"

namespace lockstep {

/// Refuses a text that is not a replica's device while the command line is read, so that the error names the flag. If
/// the command measures, also refuses shares of more cores than there are, which would measure nothing (two are always
/// allowed).
inline CLI::Validator replica_device_name(bool measures = true) {
  return CLI::Validator(
      [measures](const std::string& name) -> std::string {
        try {
          const ReplicaDevice device{name};
          if (!measures) return "";
          const int cores = std::max(available_cores(), 2);
          if (!device.is_cpu() || device.index() < cores) return "";
          return fmt::format("there is no {}: of {} cores give cpu:0 to cpu:{}", name, available_cores(), cores - 1);
        } catch (const Error& error) {
          return error.happened() + "; use cpu:0, cpu:1, ... or cuda:0, cuda:1, ...";
        }
      },
      "DEVICE");
}

}  // namespace lockstep
