#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/communicator.h"

namespace lockstep {

/// What one engine can do, for the automatic choice, for tests and for `lockstep env`.
struct Engine {
  const char* name;
  const char* description;
  bool across_hosts;                ///< ranks may be on several hosts
  bool across_processes;            ///< ranks may be in several processes
  bool threads;                     ///< ranks may be threads of one process
  bool (*fits)(const Membership&);  ///< where that is not all: whether it is made for these members; null: always
  std::unique_ptr<Communicator> (*make)(Membership);
  c10::DeviceType device = c10::DeviceType::CPU;  ///< where its tensors are
};

/// The engines of this build, the preferred one first.
const std::vector<Engine>& available_engines();

/// An engine that this build does not have.
struct MissingEngine {
  const char* name;
  const char* reason;
};
const std::vector<MissingEngine>& missing_engines();

/// The first available engine for CPU tensors that can serve these members: where all are threads of one process, one
/// that shares its memory; on one host, one that shares the host's memory; else one that crosses hosts, through the
/// memory of those with several ranks.
std::string default_engine(const Membership& membership);

/// Before an "env://" rendezvous: where mpirun started ranks on several hosts and nothing says where they meet, lets
/// them agree on it over MPI, if this build has it. Sets MASTER_ADDR, MASTER_PORT and LOCKSTEP_SECRET.
void prepare_rendezvous(Deadline deadline);

/// Brings up a communicator. Collective: every member calls it with the same engine.
/// @param engine  a name from available_engines(); empty for default_engine(). A group of one rank needs none and gets
/// "single", unless an engine of a device is named.
/// @throws Error  where the engine does not exist in this build or cannot serve these members, or a member does not
/// come
std::unique_ptr<Communicator> make_communicator(const std::string& engine, Membership membership);

/// Brings up what carries these members' tensors on `device`. Collective.
/// @throws Error  as make_communicator does
std::unique_ptr<Communicator> make_companion(Membership membership, c10::Device device);

}  // namespace lockstep
