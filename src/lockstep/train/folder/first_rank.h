#pragma once

#include <string>

#include "lockstep/train/folder/folder_succession.h"

namespace lockstep {

/// The first rank of a training: its callbacks write files in the output folder. If it is lost, another rank becomes
/// the first one, and its callbacks see that once the folder is its own.
class FirstRank {
 public:
  /// @param context  outlives this object
  explicit FirstRank(TrainerContext& context) : context_(context), succession_(context) {}

  /// The training begins, and no rank has been lost.
  void begin() { has_begun_ = context_.rank() == 0; }
  /// Whether callbacks on this rank have seen the training begin on the first rank.
  bool has_begun() const { return has_begun_; }

  /// The ranks have changed. If this rank has become the first one, it tries to take the folder.
  void note_ranks();
  /// After it: callbacks see the training begin if this rank has taken the folder, or is new.
  void begin_callbacks(bool is_new);
  /// Between stages, on a rank that became the first one while the folder was still held: tries again.
  /// @param use  what needs the folder now; empty: nothing that could not be kept for later
  void await_folder(const std::string& use);
  /// After the last stage, as `note_ranks` and `await_folder`.
  void take_folder_at_the_end();
  /// The training continues as after a checkpoint: callbacks see it begin.
  void begin_as_after_checkpoint();
  /// As FolderSuccession::keep_log.
  void keep_log(const Logs& logs) { succession_.keep_log(logs); }

 private:
  bool becomes_first() const { return context_.rank() == 0 && !has_begun_; }
  void begin_as_first();

  TrainerContext& context_;
  FolderSuccession succession_;
  bool has_begun_ = false;
};

}  // namespace lockstep
