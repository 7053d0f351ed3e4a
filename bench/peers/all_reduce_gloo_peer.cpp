// One rank of the peer "gloo" of `lockstep bench all-reduce`: Gloo's own all-reduce (ring) as PyTorch calls it.
// usage: lockstep-all-reduce-gloo FOLDER LARGEST_BYTES RANK WORLD_SIZE
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "bench/workers/all_reduce_turn.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string folder = argv[1];
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    const int rank = std::atoi(argv[3]);
    const int world_size = std::atoi(argv[4]);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, world_size);
    gloo::rendezvous::FileStore store(folder + "/store");
    context->connectFullMesh(store, device);

    std::vector<float> region(lockstep::bench::region_bytes(std::strtoull(argv[2], nullptr, 10)) / sizeof(float));
    lockstep::bench::AllReduceRank me;
    me.rank = rank;
    me.world_size = world_size;
    me.region = region.data();
    me.region_bytes = region.size() * sizeof(float);
    const auto all_reduce = [&](std::size_t offset, std::size_t count) {
      gloo::AllreduceOptions options(context);
      options.setOutput(region.data() + offset, count);
      options.setReduceFunction(
          [](void* out, const void* a, const void* b, std::size_t n) { gloo::sum<float>(out, a, b, n); });
      gloo::allreduce(options);
    };
    me.ways.push_back({all_reduce, region.data()});
    float spare = 0;
    me.synchronise = [&] {
      gloo::AllreduceOptions options(context);
      options.setOutput(&spare, 1);
      options.setReduceFunction(
          [](void* out, const void* a, const void* b, std::size_t n) { gloo::sum<float>(out, a, b, n); });
      gloo::allreduce(options);
    };
    lockstep::bench::take_turns(me, folder);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
