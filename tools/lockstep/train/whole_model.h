#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

/// Warns of tensors of `folder` that the model lacks, or that it holds apart although config.json ties them. @throws
/// Error  if parameters of the model are not in `folder`
inline void require_whole_model(const LoadReport& report, const std::string& folder) {
  if (report.has_new_weights()) {
    throw Error("the model has no weights for all of its parameters, so its answers mean nothing\n" + report.text(),
                folder,
                "give the folder of a model that was trained for this task; config.json says that this one is a " +
                    ConfigFile(folder).json().value("architectures", nlohmann::json::array()).dump());
  }
  if (!report.unexpected.empty() || !report.untied.empty()) log_warning("{}", report.text());
}

}  // namespace lockstep
