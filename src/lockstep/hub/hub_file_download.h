#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/hub/hub_model.h"

namespace lockstep {

/// Called while a file comes, with its bytes on the disk so far.
using HubProgress = std::function<void(const HubFile& file, std::int64_t bytes)>;

/// Fetches one file of a model into `folder`: into a hidden file first, which keeps what has come if the transfer
/// breaks, and is renamed when its content is proven to be the Hub's. A broken transfer is continued as long as each
/// attempt brings something.
/// @throws Error  in words: what the Hub or the network refused; no room on the disk; content that is not the Hub's;
/// another process that fetches the same file
void fetch_hub_file(const HubSettings& settings, const HubModel& model, const HubFile& file, const std::string& folder,
                    const std::string& revision, const HubProgress& progress);

/// Bytes of `file` that an earlier transfer into `folder` has left.
std::int64_t fetched_bytes(const HubFile& file, const std::string& folder);

}  // namespace lockstep
