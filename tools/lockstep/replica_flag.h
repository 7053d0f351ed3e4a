// A flag that names devices of replicas.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/parallel/replica_device.h"

namespace lockstep {

/// Refuses what is no device of a replica while the command line is read, so that the error names the flag.
inline CLI::Validator replica_device_name() {
  return CLI::Validator(
      [](const std::string& name) -> std::string {
        try {
          ReplicaDevice{name};
          return "";
        } catch (const Error& error) {
          return error.happened() + "; use cpu:0, cpu:1, ... or cuda:0, cuda:1, ...";
        }
      },
      "DEVICE");
}

}  // namespace lockstep
