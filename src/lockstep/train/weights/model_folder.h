#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// The files of a saved model besides the weights, written and not yet in place: a full disk leaves the old model, not
/// a mixture.
class ModelFolder {
 public:
  /// Makes the folder, and writes the files beside their places.
  ModelFolder(TrainableModel& model, const std::string& folder);

  std::string weights_path() const { return folder_ + "/model.safetensors"; }
  /// Puts the files in place, after the weights.
  void commit();

 private:
  std::string folder_;
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

}  // namespace lockstep
