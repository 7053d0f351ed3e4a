// The part of `lockstep plan` about stages: what each takes in memory and time, and which one to take.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/stage_forecast.h"
#include "tools/models/memory_estimate.h"

namespace lockstep {

/// What is planned for: hosts of this memory, joined by such links.
struct StageQuestion {
  const HostProfile& profile;
  const ModelMemory& model;
  LinkSpeed link;
  std::int64_t host_bytes = 0;  ///< memory of each host that a training may take
};

/// One way to train on some hosts.
struct StageRow {
  int stage = 0;  ///< 0 to 3, as ZeRO counts
  int ranks_per_host = 1;
  double step_s = 0;
  std::int64_t bytes = 0;  ///< that the ranks of a host hold together
  bool fits = false;
};

/// All stages on `shape`'s ranks, with Adam.
std::vector<StageRow> stages_of(const StageQuestion& question, const ClusterShape& shape);

/// The fastest stage that fits; if none does, with fewer ranks on each host. Steps are taken to be as long with fewer
/// ranks as with `shape`'s, which is the number that was measured.
/// @return  nothing if no stage fits with one rank a host
std::optional<StageRow> choose_stage(const StageQuestion& question, const ClusterShape& shape);

/// "stage 2, 3 ranks a host, 11.2 GB a host", or what to do if nothing fits.
std::string choice_text(const std::optional<StageRow>& choice);

nlohmann::ordered_json json_of_stages(const StageQuestion& question, const ClusterShape& shape);
/// A table with a line for each number of hosts, which is printed below the forecasts.
std::string table_of_stages(const StageQuestion& question, const std::vector<ClusterShape>& shapes);

/// Memory of this host, in bytes; 0 if the system does not say.
std::int64_t memory_of_this_host();

}  // namespace lockstep
