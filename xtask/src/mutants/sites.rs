//! Where a file can be changed in a small way, and how: the genres of cargo-mutants. A function
//! returns a plain value at once; an operator is another; `!` or `-` is left out; a guard of a
//! match is always or never met; an arm is left out where another takes what it took.
//!
//! Left alone: tests, `Debug`, macros, and what is computed while compiling (constants, `const`
//! functions, lengths of arrays), since what switches a mutant on is read when the program runs.

use proc_macro2::Span;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, ImplItem, Item, ReturnType, Signature, Type, UnOp};

/// A place with its alternatives.
#[derive(Debug)]
pub struct Site {
    /// The bytes of the original.
    pub range: Range<usize>,
    /// Where it begins, from 1.
    pub line: usize,
    /// The function around it, and the type or trait around that.
    pub function: String,
    pub form: Form,
    /// What is there instead.
    pub alternatives: Vec<Alternative>,
}

/// How alternatives stand in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An expression, in place of which each can stand.
    Expression,
    /// The inside of a function, which returns them at once.
    Body,
    /// A pattern, which is met by nothing.
    Pattern,
}

/// What is there instead.
#[derive(Debug)]
pub struct Alternative {
    /// As people read it.
    pub change: String,
    /// As an expression.
    pub text: String,
}

/// What a file has.
#[derive(Debug, Default)]
pub struct Found {
    pub sites: Vec<Site>,
    /// Modules in files of their own that are not tests.
    pub modules: Vec<String>,
}

/// The sites of a file, in the order of the text; of two at one place the outer is first.
///
/// # Errors
/// The text is not Rust.
pub fn of(text: &str) -> Result<Found, String> {
    let file = syn::parse_file(text).map_err(|why| format!("line {}: {why}", why.span().start().line))?;
    let mut finder = Finder {
        text,
        around: Vec::new(),
        found: Found::default(),
    };
    finder.visit_file(&file);
    Ok(finder.found)
}

struct Finder<'a> {
    text: &'a str,
    /// The names of what is around: types, traits, functions.
    around: Vec<String>,
    found: Found,
}

impl Finder<'_> {
    fn source(&self, node: &impl Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    fn add(&mut self, node: &impl Spanned, form: Form, alternatives: Vec<Alternative>) {
        let span: Span = node.span();
        if !alternatives.is_empty() {
            self.found.sites.push(Site {
                range: span.byte_range(),
                line: span.start().line,
                function: self.around.join("::"),
                form,
                alternatives,
            });
        }
    }

    fn inside(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.around.push(name);
        visit(self);
        self.around.pop();
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if of_tests(attributes) || signature.constness.is_some() {
            return;
        }
        let name = signature.ident.to_string();
        let values = match (&signature.output, block.stmts.is_empty()) {
            (_, true) => Vec::new(),
            // It would call itself.
            _ if name == "default" => Vec::new(),
            (ReturnType::Default, false) => vec!["()".to_owned()],
            (ReturnType::Type(_, returned), false) => plain(returned),
        };
        let original = self.source(block).trim_matches(['{', '}']).trim().to_owned();
        self.inside(name, |me| {
            let alternatives = values.into_iter().filter(|value| *value != original);
            let alternatives = alternatives.map(|text| Alternative {
                change: format!("return {text}"),
                text,
            });
            me.add(block, Form::Body, alternatives.collect());
            me.visit_block(block);
        });
    }

    fn binary(&mut self, node: &syn::ExprBinary) {
        let Some((operator, others)) = others(&node.op) else {
            return;
        };
        if has_let(&node.left) || has_let(&node.right) {
            return;
        }
        let (left, right) = (self.source(&node.left), self.source(&node.right));
        let alternatives = others
            .iter()
            .map(|other| Alternative {
                change: format!("{operator} is {other}"),
                text: format!("({left}) {other} ({right})"),
            })
            .collect();
        self.add(node, Form::Expression, alternatives);
    }

    fn arms(&mut self, arms: &[syn::Arm]) {
        let takes_all = |arm: &syn::Arm| matches!(arm.pat, syn::Pat::Wild(_));
        for (at, arm) in arms.iter().enumerate() {
            let guarded = match &arm.pat {
                syn::Pat::Guard(guarded) => Some(&guarded.guard),
                _ => None,
            };
            if let Some(guard) = guarded {
                if !has_let(guard) {
                    let always = ["true", "false"].map(|text| Alternative {
                        change: format!("the guard is {text}"),
                        text: text.to_owned(),
                    });
                    self.add(guard, Form::Expression, always.into());
                }
                self.visit_expr(guard);
            } else if !takes_all(arm) && arms[at + 1..].iter().any(takes_all) {
                let change = format!("no arm {}", one_line(self.source(&arm.pat)));
                let text = String::new();
                self.add(&arm.pat, Form::Pattern, vec![Alternative { change, text }]);
            }
            self.visit_expr(&arm.body);
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Fn(function) => self.function(&function.attrs, &function.sig, &function.block),
            Item::Mod(module) if of_tests(&module.attrs) => {}
            Item::Mod(module) if module.content.is_none() => {
                self.found.modules.push(module.ident.to_string());
            }
            Item::Impl(block) => {
                let of_trait = block.trait_.as_ref().map(|(path, _)| one_line(self.source(path)));
                let name = one_line(self.source(&block.self_ty));
                let debug = of_trait.is_some_and(|name| name.ends_with("Debug"));
                if !of_tests(&block.attrs) && !debug {
                    self.inside(name, |me| visit::visit_item_impl(me, block));
                }
            }
            Item::Trait(definition) => {
                self.inside(definition.ident.to_string(), |me| {
                    visit::visit_item_trait(me, definition)
                });
            }
            Item::Mod(_) => visit::visit_item(self, item),
            _ => {}
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if let ImplItem::Fn(function) = item {
            self.function(&function.attrs, &function.sig, &function.block);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.attrs, &function.sig, block);
        }
    }

    fn visit_expr(&mut self, node: &'ast Expr) {
        match node {
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => {
                let text = format!("({})", self.source(&unary.expr));
                let change = format!("no {}", self.source(&unary.op));
                self.add(unary, Form::Expression, vec![Alternative { change, text }]);
            }
            Expr::Const(_) => return,
            Expr::Repeat(repeat) => return self.visit_expr(&repeat.expr),
            Expr::Match(chosen) => {
                self.visit_expr(&chosen.expr);
                return self.arms(&chosen.arms);
            }
            _ => {}
        }
        visit::visit_expr(self, node);
    }

    // What is computed while compiling, or is no code.
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_path_arguments(&mut self, _: &'ast syn::PathArguments) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether it is compiled for tests alone.
fn of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let said = || match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string().contains("test"),
            _ => false,
        };
        path.is_ident("test") || (path.is_ident("cfg") && said())
    })
}

/// Whether it binds names for what follows, and so cannot be put into brackets.
fn has_let(node: &Expr) -> bool {
    match node {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// An operator, and what can stand in its place.
fn others(operator: &BinOp) -> Option<(&'static str, &'static [&'static str])> {
    Some(match operator {
        BinOp::Add(_) => ("+", &["-", "*"]),
        BinOp::Sub(_) => ("-", &["+", "/"]),
        BinOp::Mul(_) => ("*", &["+", "/"]),
        BinOp::Div(_) => ("/", &["%", "*"]),
        BinOp::Rem(_) => ("%", &["/", "+"]),
        BinOp::And(_) => ("&&", &["||"]),
        BinOp::Or(_) => ("||", &["&&"]),
        BinOp::BitXor(_) => ("^", &["|", "&"]),
        BinOp::BitAnd(_) => ("&", &["|", "^"]),
        BinOp::BitOr(_) => ("|", &["&", "^"]),
        BinOp::Shl(_) => ("<<", &[">>"]),
        BinOp::Shr(_) => (">>", &["<<"]),
        BinOp::Eq(_) => ("==", &["!="]),
        BinOp::Ne(_) => ("!=", &["=="]),
        BinOp::Lt(_) => ("<", &["==", ">", "<="]),
        BinOp::Gt(_) => (">", &["==", "<", ">="]),
        BinOp::Le(_) => ("<=", &[">", "<"]),
        BinOp::Ge(_) => (">=", &["<", ">"]),
        BinOp::AddAssign(_) => ("+=", &["-=", "*="]),
        BinOp::SubAssign(_) => ("-=", &["+=", "/="]),
        BinOp::MulAssign(_) => ("*=", &["+=", "/="]),
        BinOp::DivAssign(_) => ("/=", &["%=", "*="]),
        BinOp::RemAssign(_) => ("%=", &["/=", "+="]),
        BinOp::BitXorAssign(_) => ("^=", &["|=", "&="]),
        BinOp::BitAndAssign(_) => ("&=", &["|=", "^="]),
        BinOp::BitOrAssign(_) => ("|=", &["&=", "^="]),
        BinOp::ShlAssign(_) => ("<<=", &[">>="]),
        BinOp::ShrAssign(_) => (">>=", &["<<="]),
        _ => return None,
    })
}

/// Plain values of a type; none where none is known to exist.
fn plain(of: &Type) -> Vec<String> {
    let owned = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
    match of {
        Type::Paren(inner) => plain(&inner.elem),
        Type::Tuple(tuple) if tuple.elems.is_empty() => owned(&["()"]),
        Type::Tuple(tuple) => {
            let firsts: Vec<String> = tuple
                .elems
                .iter()
                .filter_map(|elem| plain(elem).into_iter().next())
                .collect();
            match firsts.len() == tuple.elems.len() {
                true => vec![format!("({},)", firsts.join(", "))],
                false => Vec::new(),
            }
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => owned(&["\"\"", "\"xyzzy\""]),
            Type::Slice(_) if reference.mutability.is_none() => owned(&["&[]"]),
            _ => Vec::new(),
        },
        Type::Path(path) => plain_of_path(&path.path),
        _ => Vec::new(),
    }
}

fn plain_of_path(path: &syn::Path) -> Vec<String> {
    let Some(last) = path.segments.last() else {
        return Vec::new();
    };
    let inner = match &last.arguments {
        syn::PathArguments::AngleBracketed(list) => list.args.iter().find_map(|argument| match argument {
            syn::GenericArgument::Type(inner) => Some(plain(inner)),
            _ => None,
        }),
        _ => None,
    };
    let each = |before: &str, after: &str| {
        let values = inner.iter().flatten();
        values
            .map(|value| format!("{before}{value}{after}"))
            .collect::<Vec<_>>()
    };
    let with = |first: &str, rest: Vec<String>| [vec![first.to_owned()], rest].concat();
    match last.ident.to_string().as_str() {
        "bool" => vec!["true".to_owned(), "false".to_owned()],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => vec!["0".to_owned(), "1".to_owned()],
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => ["0", "1", "-1"].map(str::to_owned).into(),
        "f32" | "f64" => ["0.0", "1.0", "-1.0"].map(str::to_owned).into(),
        "String" => vec!["String::new()".to_owned(), "\"xyzzy\".to_owned()".to_owned()],
        "Option" => with("None", each("Some(", ")")),
        "Result" => each("Ok(", ")"),
        "Vec" => with("Vec::new()", each("vec![", "]")),
        "Box" | "Arc" | "Rc" if inner.is_some() => each(&format!("{}::new(", last.ident), ")"),
        _ => vec!["Default::default()".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(text: &str) -> Vec<String> {
        let found = of(text).expect("Rust");
        found
            .sites
            .iter()
            .flat_map(|site| {
                site.alternatives
                    .iter()
                    .map(|alternative| format!("{} {}: {}", site.line, site.function, alternative.change))
            })
            .collect()
    }

    #[test]
    fn functions_operators_guards_and_arms_are_sites() {
        let text = "\
impl Queue {
    fn full(&self, at: Option<u8>) -> bool {
        match at {
            Some(0) => !self.a,
            Some(n) if n > 3 => true,
            _ => self.len + 1 >= self.limit,
        }
    }
}
";
        assert_eq!(
            changes(text),
            [
                "2 Queue::full: return true",
                "2 Queue::full: return false",
                "4 Queue::full: no arm Some(0)",
                "4 Queue::full: no !",
                "5 Queue::full: the guard is true",
                "5 Queue::full: the guard is false",
                "5 Queue::full: > is ==",
                "5 Queue::full: > is <",
                "5 Queue::full: > is >=",
                "6 Queue::full: >= is <",
                "6 Queue::full: >= is >",
                "6 Queue::full: + is -",
                "6 Queue::full: + is *",
            ]
        );
    }

    #[test]
    fn tests_constants_and_debug_are_none() {
        let text = "\
const A: usize = 1 + 1;
const fn two() -> usize { 1 + 1 }
#[cfg(test)]
mod tests { fn f() -> bool { 1 == 2 } }
impl std::fmt::Debug for X { fn fmt(&self) -> bool { true } }
fn array() { let _x: [u8; 1 + 1] = [0; 1 + 1]; }
mod elsewhere;
#[cfg(test)]
mod rig;
";
        assert_eq!(changes(text), ["6 array: return ()"]);
        assert_eq!(of(text).expect("Rust").modules, ["elsewhere"]);
    }
}
