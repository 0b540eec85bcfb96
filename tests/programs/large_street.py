"""The programs of `street` for scenes of full size: two ranks with such a batch fit into the memory of one host."""

from __future__ import annotations

import street

street.BATCH = 2

plain, trusting_ids, clamping_ids = street.plain, street.trusting_ids, street.clamping_ids
blending_masks, picking_masks = street.blending_masks, street.picking_masks
clamping_blended_masks = street.clamping_blended_masks
