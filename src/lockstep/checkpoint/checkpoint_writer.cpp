#include "lockstep/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <future>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/files/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/checkpoint/agreement.h"
#include "lockstep/checkpoint/checkpoint_save.h"
#include "lockstep/checkpoint/files/staged_file.h"
#include "lockstep/checkpoint/state/snapshot.h"
#include "lockstep/comm/broadcast_text.h"
#include "lockstep/net/sockets/signal_mask.h"

namespace lockstep {
namespace {

// Training has priority; the rest of the processor's time is enough to write.
constexpr int kWriterNiceness = 5;

void make_output_folder(FileSystem& files, const std::string& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  std::filesystem::path folder;
  for (const auto& part : whole) {
    const std::filesystem::path parent = folder;
    folder /= part;
    std::error_code ignored;
    if (part.empty() || std::filesystem::is_directory(folder, ignored)) continue;
    if (files.make_folder(folder.string(), 0755) != 0 && errno != EEXIST) fail_to("make the folder", folder.string());
    if (files.sync_folder(parent.string()) != 0) fail_to("sync folder", parent.string());
  }
  if (std::filesystem::is_directory(whole)) return;
  throw Error(path + " is not a folder", path, "give a folder for checkpoints");
}

}  // namespace

class CheckpointWriter::Implementation {
 public:
  Implementation(CheckpointWriterOptions options, std::shared_ptr<Communicator> communicator)
      : options_(std::move(options)), communicator_(std::move(communicator)) {
    if (options_.file_system == nullptr) options_.file_system = &real_file_system();
    if (communicator_ != nullptr) membership_ = communicator_->membership();
    if (membership_.world_size == 1) {
      make_output_folder(*options_.file_system, options_.output_dir);
      return;
    }
    run_together(*communicator_, "making " + options_.output_dir, [&] {
      if (membership_.rank == 0) make_output_folder(*options_.file_system, options_.output_dir);
    });
    run_together(*communicator_, "looking for " + options_.output_dir, [&] {
      if (std::filesystem::is_directory(options_.output_dir)) return;
      throw Error(fmt::format("rank 0 made {}, but it does not exist on this rank", options_.output_dir),
                  membership_.where(), "give an output folder on a file system that all ranks share");
    });
    std::string id;
    run_together(*communicator_, "numbering the writer of checkpoints", [&] {
      if (membership_.rank == 0) id = std::to_string(membership_.store->add("checkpoint/writers", 1));
    });
    id_ = broadcast_text(*communicator_, id);
  }

  ~Implementation() {
    try {
      wait();
    } catch (const std::exception& error) {
      log_line(LogLevel::Error, error.what());
    }
  }

  std::string save(const CheckpointContent& content) {
    const auto begin = std::chrono::steady_clock::now();
    wait();
    set_times({seconds_since(begin), 0, 0});
    const std::int64_t number = ++number_;
    prepare_joining(content);
    if (!options_.background) {
      write(content, number);
      return published_;
    }
    const auto copied = std::chrono::steady_clock::now();
    auto copy = std::make_shared<const CheckpointContent>(snapshot_.copy(content));
    set_times({times_.wait_s, seconds_since(copied), 0});
    const SignalsBlocked blocked;  // for the thread, which inherits it
    writing_ = std::async(std::launch::async, [this, copy, number] {
      // Concerns only this thread: on Linux "the process" with a thread's id is that thread.
      (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWriterNiceness);
      write(*copy, number);
    });
    return options_.output_dir + "/" + options_.names.of(content.step);
  }

  void wait() {
    if (writing_.valid()) writing_.get();
  }

  std::string last_published() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return published_;
  }
  SaveTimes last_times() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return times_;
  }

 private:
  std::string keys_of(std::int64_t number) const {
    return number < 1 ? "" : fmt::format("checkpoint/{}/{}/", id_, number);
  }
  void set_times(const SaveTimes& times) {
    const std::lock_guard<std::mutex> lock(mutex_);
    times_ = times;
  }

  // Collective. Each save has a group of its own: a failure ends it, which not all ranks need to have met.
  void prepare_joining(const CheckpointContent& content) {
    if (!content.joins_weight_parts) return;
    if (communicator_ == nullptr) {
      throw Error("joins_weight_parts needs a group of ranks", "CheckpointWriter::save",
                  "give CheckpointContent::weights: one process has all of them");
    }
    joining_ = communicator_->split(0, communicator_->rank());
  }

  void write(const CheckpointContent& content, std::int64_t number) {
    const auto begin = std::chrono::steady_clock::now();
    const CheckpointSave save{
        *options_.file_system, membership_,     options_.output_dir, options_.names, options_.save_total_limit,
        options_.timeout,      keys_of(number), keys_of(number - 1), number,         joining_.get()};
    std::string path = run_save(save, content);
    const std::lock_guard<std::mutex> lock(mutex_);
    published_ = std::move(path);
    times_.write_s = seconds_since(begin);
  }

  CheckpointWriterOptions options_;
  std::shared_ptr<Communicator> communicator_;
  Membership membership_;
  std::string id_;
  std::int64_t number_ = 0;                // number of saves begun
  std::unique_ptr<Communicator> joining_;  // of the newest save that joins weights
  SnapshotMemory snapshot_;
  mutable std::mutex mutex_;
  std::string published_;  // mutex_ guards it, and times_
  SaveTimes times_;
  std::future<void> writing_;  // last member, so destroyed first
};

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options, std::shared_ptr<Communicator> communicator)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(communicator))) {}

CheckpointWriter::~CheckpointWriter() = default;

std::string CheckpointWriter::save(const CheckpointContent& content) { return implementation_->save(content); }
void CheckpointWriter::wait() { implementation_->wait(); }
std::string CheckpointWriter::last_published() const { return implementation_->last_published(); }
SaveTimes CheckpointWriter::last_times() const { return implementation_->last_times(); }

}  // namespace lockstep
