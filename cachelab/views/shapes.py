"""The form of each status in the graph picture: a status is never told by colour alone."""

from __future__ import annotations


def patterns(uid: str) -> str:
    """Return the fills of hatched and striped boxes; ``uid`` keeps several pictures of one page apart."""
    turned = 'width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    upright = 'width="4" height="6" patternUnits="userSpaceOnUse"'
    return (
        f'<defs><pattern id="cl-r-{uid}" {turned}><rect class="hb" width="6" height="6"/>'
        '<rect class="hs" width="2" height="6"/></pattern>'
        f'<pattern id="cl-u-{uid}" {upright}><rect class="ub" width="4" height="6"/>'
        '<rect class="us" width="1.4" height="6"/></pattern></defs>'
    )


def shape(letter: str, box: tuple[float, float, float, float], uid: str) -> str:
    """Return the form of a status.

    Parameters
    ----------
    letter
        As people see it: S pill, R hatch, U stripes and thick sides, F thick left edge, M double border, K cut
        corner, N right side open, T slash; C, P and X differ by fill and border only.
    box
        x, y, width, height in px.
    uid
        As for :func:`patterns`.
    """
    x, y, width, height = box
    rect = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    plain = f'<rect class="b" {rect} rx="3"/>'
    inner = f'x="{x + 5:.1f}" y="{y + 3:.1f}" width="{width - 10:.1f}" height="{height - 6:.1f}"'
    right = x + width
    forms = {
        "S": f'<rect class="halo" x="{x - 4:.1f}" y="{y - 4:.1f}" width="{width + 8:.1f}" height="{height + 8:.1f}" '
        f'rx="21"/><rect class="b" {rect} rx="17"/>',
        "R": f'<rect class="b" style="fill:url(#cl-r-{uid})" {rect} rx="3"/><rect class="plate" {inner} rx="2"/>',
        "U": f'<rect class="b" style="fill:url(#cl-u-{uid})" {rect}/><rect class="plate" {inner} rx="2"/>'
        f'<path class="thick" d="M{x:.1f} {y:.1f}h4v{height}h-4zM{right - 4:.1f} {y:.1f}h4v{height}h-4z"/>',
        "F": f'{plain}<path class="thick" d="M{x:.1f} {y:.1f}h5v{height}h-5z"/>',
        "M": f'{plain}<rect class="in" x="{x + 3:.1f}" y="{y + 3:.1f}" width="{width - 6:.1f}" height="{height - 6}"/>',
        "K": f'<path class="b" d="M{x:.1f} {y:.1f}h{width - 12:.1f}l12 12v{height - 12}h{-width:.1f}z"/>',
        "N": f'<path class="b" d="M{right:.1f} {y:.1f}h{-width:.1f}v{height}h{width:.1f}"/>',
        "T": f'{plain}<path class="in" d="M{x:.1f} {y + height:.1f}l9 {-height}"/>',
    }
    return forms.get(letter, plain)
