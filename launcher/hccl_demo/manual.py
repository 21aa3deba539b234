"""What `hccl_demo --doc` tells."""

from __future__ import annotations

TEXT = """\
hccl_demo: HCCL's benchmark on emulated Gaudi cards

  One process per rank, each with a card of its own, does the same collective again and again; the result is how many
  bytes of input a rank gets rid of per modelled second, and what the network carries for that.

Tests
  broadcast        one rank's data on all ranks             NW = algorithm bandwidth
  all_reduce       sums (--reduction_op) on all ranks       NW = algorithm bandwidth x 2 (n-1)/n
  reduce_scatter   block r of the sums at rank r            NW = algorithm bandwidth x (n-1)/n
  all_gather       all ranks' data on all ranks             NW = algorithm bandwidth x (n-1)
  all2all          block s of rank r at rank s              NW = algorithm bandwidth x (n-1)/n
  reduce           sums at one rank                         NW = algorithm bandwidth
  send_recv        pairs of ranks, or those of --ranks_list NW = algorithm bandwidth x messages received
  scale_validation every pair against what its ports carry

Environment variables
  HCCL_COMM_ID           where ranks of several machines meet: <IP:PORT> of node 0
  HABANA_VISIBLE_DEVICES cards of this machine to use: all (default), or indexes such as 0,1,5
  HPUCLUSTER_CARD        default of --card
  HPUCLUSTER_FABRIC      default of --fabric
  HPUCLUSTER_ALGORITHM   default of --algorithm
  HPUCLUSTER_LINKS       default of --links

A rank is told its part by the real program's variables: HCCL_DEMO_TEST, HCCL_DEMO_MEASURE, HCCL_DATA_TYPE,
HCCL_DEMO_TEST_SIZE or HCCL_SIZE_RANGE_MIN, _MAX and _INC, HCCL_DEMO_TEST_LOOP, HCCL_DEMO_TEST_ROOT, HCCL_REDUCTION_OP,
HCCL_RANKS_LIST, HCCL_DEMO_CUSTOM_COMM, HCCL_DEMO_CHECK_CORRECTNESS, HCCL_DEMO_RESULT_CSV, HCCL_DEMO_DATA_CSV,
HCCL_EXPECTED_SCALEOUT_BW, HCCL_RANK, HCCL_NRANKS, HCCL_RANKS_PER_NODE, HCCL_SCALEUP_GROUP_SIZE."""
