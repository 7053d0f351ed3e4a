#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The abilities of one engine, for the automatic choice, for tests and for `lockstep env`.
struct Engine {
  const char* name;
  const char* description;
  bool across_hosts;                ///< ranks may be on several hosts
  bool across_processes;            ///< ranks may be in several processes
  bool threads;                     ///< ranks may be threads of one process
  bool (*fits)(const Membership&);  ///< a further condition on the members; null: none
  std::unique_ptr<Communicator> (*make)(Membership);
  c10::DeviceType device = c10::DeviceType::CPU;  ///< where the engine's tensors are
};

/// The engines of this build, the preferred one first.
const std::vector<Engine>& available_engines();

/// An engine that this build does not have.
struct MissingEngine {
  const char* name;
  const char* reason;
};
const std::vector<MissingEngine>& missing_engines();

/// The first available engine for CPU tensors that can serve these members. If all are threads of one process: an
/// engine that shares the process's memory; on one host: one that shares the host's memory; otherwise: one that crosses
/// hosts, and uses shared memory on hosts with several ranks.
std::string default_engine(const Membership& membership);

/// Prepares an "env://" rendezvous. If mpirun started ranks on several hosts and no variable names a meeting point, the
/// ranks agree on one over MPI, if this build has it. Sets MASTER_ADDR, MASTER_PORT and LOCKSTEP_SECRET.
void prepare_rendezvous(Deadline deadline);

/// Connects a communicator. Collective: every member calls it with the same engine.
/// @param engine  a name from available_engines(); empty for default_engine(). A group of one rank needs no engine and
/// gets "single", unless an engine of a device is named.
/// @throws Error  if this build does not have the engine, the engine cannot serve these members, or a member does not
/// arrive
std::unique_ptr<Communicator> make_communicator(const std::string& engine, Membership membership);

/// Connects a communicator of these members for tensors on `device`. Collective.
/// @throws Error  as make_communicator does
std::unique_ptr<Communicator> make_companion(Membership membership, c10::Device device);

}  // namespace lockstep
