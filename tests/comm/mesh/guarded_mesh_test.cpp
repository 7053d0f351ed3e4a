// The guards of a mesh, and its end, without connections.
#include "lockstep/comm/mesh/guarded_mesh.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace lockstep {
namespace {

const Deadline kPassed = Deadline::after(std::chrono::milliseconds(0));
const Deadline kFar = Deadline::after(std::chrono::hours(1));

// Counts how often its guards break it.
class MeshWithoutPeers : public GuardedMesh {
 public:
  void look() {
    look_at_guards([this] {
      ++breaks;
      mark_broken_under_lock();
    });
  }
  [[noreturn]] void wait() {
    throw_once_broken([this] { look(); });
  }
  int breaks = 0;

  void break_connections() noexcept override { mark_broken(); }
  bool sees_losses() const override { return false; }
  std::vector<int> lost_peers() override { return {}; }
  std::string address_for(int) override { return ""; }
  void connect(int, const std::string&) override {}
  std::unique_ptr<MeshBuffer> buffer(void*, std::size_t) override { return nullptr; }
  std::size_t packet_bytes() const override { return 64; }
  std::size_t packets_at_once() const override { return 1; }
  void send_packet(int, std::uint64_t, const void*, std::size_t) override {}
  const void* wait_packet(int, std::uint64_t, std::size_t) override { return nullptr; }
  void release_packet(int) override {}
};

MeshError::Kind end_of_wait(MeshWithoutPeers& mesh) {
  try {
    mesh.wait();
  } catch (const MeshError& error) {
    return error.kind();
  }
}

TEST(GuardedMesh, IsBrokenOnceByADeadlineThatPassed) {
  MeshWithoutPeers mesh;
  mesh.guard(kFar);
  mesh.look();
  EXPECT_FALSE(mesh.broken());
  mesh.guard(kPassed);
  mesh.look();
  mesh.look();
  EXPECT_TRUE(mesh.broken());
  EXPECT_EQ(mesh.breaks, 1);
  EXPECT_EQ(mesh.why_broken().kind(), MeshError::Kind::Timeout);
}

TEST(GuardedMesh, ForgetsReleasedGuards) {
  MeshWithoutPeers mesh;
  mesh.release_guard(mesh.guard(kPassed));
  mesh.look();
  EXPECT_FALSE(mesh.broken());
}

TEST(GuardedMesh, BreaksNothingThatIsBroken) {
  MeshWithoutPeers mesh;
  mesh.guard(kPassed);
  mesh.break_connections();
  mesh.look();
  EXPECT_EQ(mesh.breaks, 0);
  EXPECT_EQ(mesh.why_broken().kind(), MeshError::Kind::Broken);
}

TEST(GuardedMesh, AWaitThatCannotSucceedEndsWithTheMesh) {
  MeshWithoutPeers late;
  late.guard(kPassed);
  EXPECT_EQ(end_of_wait(late), MeshError::Kind::Timeout);
  MeshWithoutPeers broken;
  std::thread breaker([&] { broken.break_connections(); });
  EXPECT_EQ(end_of_wait(broken), MeshError::Kind::Broken);
  breaker.join();
}

}  // namespace
}  // namespace lockstep
